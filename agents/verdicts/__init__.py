"""What code makes of reports, pure: the verdict, the view and plan of an analysis, and the sizes of a trader."""
